"""Questions about schedules in SMT-LIB, answered by Z3: is there a schedule whose last chunk arrives by a given time?

Exact synthesis (`collc.synthesis.exact`) asks for a schedule, the proof of optimality
(`collc.verification.optimal`) asks whether a shorter one exists.
"""
