// Package mine makes a task class of the history of a git repository.
//
// A commit that changes code and tests, whose tests fail on its parent and pass
// with it, is a task: the agent gets the parent's tree and the commit's message,
// and is graded by the commit's tests, which it never sees. [Run] finds such
// commits, has every one checked both ways in the sandbox that grades later, twice
// each, and writes a class that people can sign, with two agents to try it on: one
// that makes the recorded change, one that does nothing.
//
// The repository is untrusted. Git is only asked to print objects; what is
// in them runs in a sandbox without a network. docs/mine.md says what such a class
// shows and what it does not.
package mine
