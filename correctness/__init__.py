"""Is every kernel right?"""
