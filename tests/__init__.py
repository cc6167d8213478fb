"""Does the suite itself work?"""
