// Package web serves a registry over HTTP.
//
// The table in routes.go is the whole surface: each row has a method, a path, who
// may ask, what it takes and what it gives. The mux, the checks in front of the
// handlers, the OpenAPI document and the tests are made of it, so that nothing is
// served that is not described.
//
// What a caller may rely on:
//
//   - Bodies are strict JSON within bounds; a query or header that is not
//     understood is refused or ignored by rule, never guessed at.
//   - Nothing is ever fetched. A did:web of another issuer verifies only with the
//     documents that come in the request.
//   - Every address that is given out begins with the public URL of the settings.
//     Host and X-Forwarded-* say nothing.
//   - Answers to public reads may be kept by caches, which must ask again unless
//     the address fixes the bytes; whatever needs an API key is not kept, and
//     pages elsewhere cannot read it.
//   - Logs have no header, query or body in them.
//
// What is allowed, recorded and decided is for package registry. TLS, compression
// and static files are for the proxy in front.
package web
