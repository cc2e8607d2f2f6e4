"""The two networks of the course with their weights, and the photos and point clouds that they are run on."""
