"""Whole schedulers in processes of their own, with jobs in files: does a definition do what it says?"""
