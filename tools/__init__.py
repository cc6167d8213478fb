"""What make calls: setting up, and checks that no package does."""
