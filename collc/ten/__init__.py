"""The TEN IR: modules of a network, a demand and a schedule, with their text and binary forms."""
