"""Programs that make calls: the installation, and checks of the workflows."""
