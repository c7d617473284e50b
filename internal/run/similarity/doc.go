// Package similarity says how alike two texts are, by the measures that papers
// report: exact match and token F1 as SQuAD's script has them, BLEU as sacrebleu
// has it, ROUGE-L as rouge-score has it, and edit distance.
//
// Each function takes what was answered and the answers that are right, and
// gives a number from 0 to 1 for the best of them. They are pure, take time in
// proportion to the length of both texts (edit distance and ROUGE-L: to their
// product, in steps of 64), and give the same number on every machine.
//
// Where it stops: a measure compares words, not what they mean. Scores are equal
// to those of the reference programs on the texts that these were made for;
// where a reference program throws away every letter that is not English
// (rouge-score), this package keeps it, and says so at the function.
package similarity
