"""The console: a page in a browser that shows the city, the stream and the networks, and the server behind it.

    workspace  which runs and folders the page may see: names, never paths
    engines    toll engines as child processes that end with the console
    roads      the traffic of a run at any second
    published  the same for feeds that are no run, from the engine's snapshot
    vehicles   one vehicle, or one segment, looked at closely
    told       what drivers were told: prices, speeds, accidents, from the committed answers
    pulse      the health of a stream, batch by batch
    watch      the city on show: what is watched, where in time, and the frames that go to the pages
    guard      who may ask: hosts, origins, token, sizes
    city, network, trajectories, monitor   the pages' interfaces, one router each
    server     all of it as one application

It may import everything but the command line, and nothing imports it but the command line.
"""
