# does: lifts its own limits and then asks for more than they allowed
# stopped by: limits
# status: error
# says: limit
import resource


def mix(x):
    for kind in (resource.RLIMIT_DATA, resource.RLIMIT_NOFILE, resource.RLIMIT_CPU):
        resource.setrlimit(kind, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    return x
