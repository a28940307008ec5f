"""What everything else stands on: settings, dtypes, devices, shapes, the registry of operators."""
