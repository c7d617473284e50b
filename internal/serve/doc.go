// Package serve is the door to pages and services over HTTP: the viewer of a
// workspace and the registry.
//
// In come requests of strangers; out go pages and documents that can be checked
// without trusting the server. It trusts no request, and decides nothing that a
// door before it has not decided. Only commands import it.
package serve
