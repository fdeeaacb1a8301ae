package value

// Patterns clusters messages as the `pattern` command does.
type Patterns struct{}

// PatternColumns are the columns of the command's result, in order.
var PatternColumns = []string{"@pattern", "@ratio", "@sampleCount", "@severityLabel"}

// NewPatterns returns an empty clustering.
func NewPatterns() *Patterns { panic("unfinished") }

// Add takes one message (the text of the command's field).
func (p *Patterns) Add(message string) { panic("unfinished") }

// Merge takes over what other has seen; other must not be used afterwards.
func (p *Patterns) Merge(other *Patterns) { panic("unfinished") }

// Results returns a row of PatternColumns for each pattern, most frequent first.
func (p *Patterns) Results() [][]Value { panic("unfinished") }

// Bytes is the memory held, in bytes; bounded.
func (p *Patterns) Bytes() int { panic("unfinished") }
