package calls

// ServiceUser is who a program is, inside, that runs as a service and may use sockets as
// agents do. No rubric has this user.
const ServiceUser = 999
