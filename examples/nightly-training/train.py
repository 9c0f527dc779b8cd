"""Stands for a program that needs its own machine; Evertick sends it to the member that runs it."""

import os
import sys

member, labels = os.environ["EVERTICK_RUN_MEMBER"], os.environ["EVERTICK_RUN_MEMBER_LABELS"]
sys.stdout.write(f"training on {member} with the labels {labels}\n")
