"""Models as readable files of operators with shapes."""
