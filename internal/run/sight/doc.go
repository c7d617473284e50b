// Package sight is the one way in which an expected answer is looked for in a
// text: the recorder looks with it while texts pass whole, and the audit in what
// was recorded, so that both find the same spellings.
//
// It knows spellings and not what they mean: whether an answer in a text is a
// leak, ordinary retrieval or a part of the question is for the audit to decide.
package sight
