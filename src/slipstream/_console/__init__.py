"""The console: a web page that shows live traffic, networks, trajectories and jobs, and the server behind it.

    workspace   the runs and folders that the page may see: names, never paths
    live/       the Live city page: traffic, vehicles, notifications, and the health of a stream
    networks/   the Network editor: files, drafts, and the network that runs
    ask/        the Ask page: queries of what jobs have committed
    trips/      the Trajectories page: recorded journeys, and the results of queries
    moving_features/  OGC API - Moving Features, for other programs
    jobs/       the Jobs page: all jobs of the workspace, and starting them
    command_processes  commands as child processes
    pages/      the HTTP interface of each page, one router each
    guard       access control: hosts, origins, token, sizes
    sign_in     signing in with the token
    errors      errors as HTTP responses
    monitoring  health check and Prometheus metrics
    server      the application and its server

It may import everything except the command line; only the command line imports it.
"""
