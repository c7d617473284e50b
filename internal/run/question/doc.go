// Package question says what a model that judges is asked, and what its replies
// come to.
//
// A [Template] is a text with placeholders out of a closed set. [Template.Render]
// puts the parts of one case into it. Parts that an agent wrote, or could have
// written, stand between two markers that carry a digest over all the parts of
// the prompt, so no part can hold the marker that ends it. A [Scale] says which
// words a judge may choose from and what each is worth. A [Metric] is arithmetic
// over what a judge said of claims or passages. A [Panel] is arithmetic over what
// several judges said.
//
// Everything here is pure. docs/judges.md has the definitions with worked
// examples, and tests compute them.
package question
