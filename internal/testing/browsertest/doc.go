// Package browsertest opens our pages in a real browser, headless Chromium, and looks at
// what a person would see: verdicts, banners, forgeries that are caught, hostile texts
// that stay texts. It has tests only.
//
// Without Chromium the tests say so and skip; .ci/setup installs it. With a folder in
// TALLY_SCREENSHOTS they keep a picture of each page, light, dark and on a phone. With
// axe-core, which .ci/setup fetches, they also look for what keeps people with a screen
// reader or a keyboard out.
package browsertest
