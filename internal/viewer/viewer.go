// Package viewer shows a workspace in a browser.
package viewer
