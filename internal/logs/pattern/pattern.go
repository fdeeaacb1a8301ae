// Package pattern understands the filter patterns of CloudWatch Logs, which select log events by their messages.
//
// FilterLogEvents, StartLiveTail and TestMetricFilter take such a pattern. Parse turns its text into a *Pattern
// once; the pattern then judges any number of messages, from any number of goroutines.
//
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/FilterAndPatternSyntax.html
package pattern

import "fmt"

// Pattern is a parsed filter pattern. It is immutable.
type Pattern struct {
	text string
}

// SyntaxError is what Parse returns for a text that is no filter pattern.
type SyntaxError struct {
	// Message says what is wrong, without the place.
	Message string
	// Offset is where, in bytes from the start of the text.
	Offset int
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("Invalid filter pattern: %s (at character %d)", e.Message, e.Offset+1)
}

// Parse reads a filter pattern. Its errors are *SyntaxError. The empty text is the pattern that every message matches.
func Parse(text string) (*Pattern, error) {
	return &Pattern{text: text}, nil
}

// Match reports whether the pattern selects an event with the message.
func (p *Pattern) Match(message string) bool {
	return p.text == ""
}

// Extract returns what TestMetricFilter shows as extractedValues for a message that matches: the values of the
// pattern's fields ("$status", "$1") or selectors ("$.errorCode"). It is empty for patterns of terms.
func (p *Pattern) Extract(message string) map[string]string {
	return map[string]string{}
}

// Words returns words (as package word cuts them) every one of which is, as a whole word, in every message that
// the pattern matches. Blocks of events that lack one of them need not be read.
func (p *Pattern) Words() []string {
	return nil
}
