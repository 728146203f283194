"""CPU work beside the event loop: condensing, masking and counting, in worker processes or threads.

`cpu.run` is the one way by which asynchronous code does it. Knows neither texts nor settings.
"""
