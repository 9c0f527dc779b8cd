"""Whole schedulers in processes of their own, with jobs in files: does what a definition says come true?"""
