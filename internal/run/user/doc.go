// Package user plays the user of a case and looks after what it says.
//
// A [Party] answers the agent in one execution of a case. Who plays it is a model,
// asked through the harness as a party of its own ([NewModel]), or a script of the case
// that runs in the sandbox of rubrics ([NewScript]). Both make a [Move] of what the agent
// said: words, calls of the user's own tools, or the end of the conversation. Every move
// is an event of the trajectory before anything comes of it.
//
// A [Watch] holds each move against the rules of the case: what may be said when, what
// must not be said, how a conversation may end. A move that breaks one is not given to
// the agent, the conversation ends, and the case is unscored: it says nothing about the
// agent. The rules are looked at again when the case is graded, from the trajectory
// alone ([Broken]), so a record that leaves the finding out does not help.
//
// Where it stops: what is looked for are the texts of the case in the spellings that
// [tallystick/internal/run/sight] undoes, run together, spelled out, in digits written
// as words, backwards and with digits for letters. A paraphrase is not found, and
// neither is a text that is spread over three messages. Whether a message speaks as the
// agent or answers its own question is told by its form.
//
// docs/users.md has the format and the rules for people.
package user
