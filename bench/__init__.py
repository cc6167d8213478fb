"""Is any kernel slower than it was?"""
