// Package egress is the one way out of an agent's sandbox besides the gateway: an HTTP
// and HTTPS proxy for the hosts that a target lists, and for nothing else.
//
// A [Rules] is what a target lists. A [Proxy] stands between one case's program and its
// session: it reads requests strictly, terminates TLS with a certificate authority that
// is made for the case and forgotten with it, compares what the program says in CONNECT,
// SNI and Host, and gives what is listed to the session, which asks the policy and
// records. It sends nothing itself: who answers, a live server or a recording, is the
// session's business. [Guard] says which addresses a live side may reach.
//
// What is refused is told to the program, and is a violation of the case that names the
// line by which a target would permit it. Model providers are refused whatever a target
// lists: their calls belong to the gateway, where budgets see them.
//
// What the proxy cannot do: tell what a server does with a request; carry WebSocket,
// HTTP/2, HTTP/3 or any protocol that is not request and reply (they are refused); see
// what a program encodes in the requests that it may send.
package egress
