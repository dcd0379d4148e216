"""Values of many BSON documents at the same time, with numpy."""
