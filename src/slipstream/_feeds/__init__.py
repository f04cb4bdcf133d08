"""Linear Road's tuples and how they are stored and sent: recorded runs, text files, trains, histories, clocks."""
