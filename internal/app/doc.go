// Package app is the door to what people do with a workspace: making it, signing,
// running, recording, mining, running over many machines.
//
// In come a workspace and what a person asked for; out go changed files and
// entries. It trusts what the doors before it verified. Pages, services and
// commands call it and add nothing of their own.
package app
