// Package spend keeps what a person allowed runs to pay: permissions, each for one
// workspace, one endpoint and one key, with a limit per day that is reserved before
// each call.
//
// A permission is a file in the user's state folder and nowhere else: a workspace comes
// from other people, and must not say how much of this user's money may be spent. The
// file names the folder of the workspace, the endpoint, the name of the key, the MCP
// servers, what programs may ask of other servers, and the folder that it lies in; if one
// of them is another now, there is no permission. What a file says that
// is a link, belongs to another user, can be written by others or does not parse is
// refused and never taken for "no limit".
//
// The day's spending stands in the same file, and is changed under a lock: the most that
// a call can cost is written down before the call is sent, and what it did cost after it.
// A process that dies in between leaves the most. The day is UTC and never goes back, so
// a clock that was set back gives no second limit.
//
// Where it stops: it bounds what this program sends. A program that runs as the same
// user can write the file, and a provider may bill what its price list does not say.
package spend
