"""What concord runs inside a release's environment: a warm server that forks one process per case."""
