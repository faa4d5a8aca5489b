"""What Ringonce knows without any library: values and pure rules, importing only the standard library."""
