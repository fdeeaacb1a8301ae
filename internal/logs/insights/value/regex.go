package value

// Regex is a compiled regular expression of a query. It matches in time linear in the text, and is safe for use by many goroutines.
type Regex struct{}

// CompileRegex compiles what a query has between the slashes of /.../ (or in a string, where a
// command takes the expression as one). Errors say what is wrong and what to write instead.
func CompileRegex(pattern string) (*Regex, error) { panic("unfinished") }

// Match reports whether s contains a match.
func (r *Regex) Match(s string) bool { panic("unfinished") }

// Groups returns the names of the capturing groups, in order; "" for one without a name.
func (r *Regex) Groups() []string { panic("unfinished") }

// Find appends to dst the text of each capturing group of the leftmost match in s ("" and false in ok's place
// for a group that took no part) and reports whether there was a match.
func (r *Regex) Find(dst []Value, s string) ([]Value, bool) { panic("unfinished") }

// Literals returns substrings that every match contains, so that whoever skips data may skip what lacks one of them.
func (r *Regex) Literals() []string { panic("unfinished") }

// String returns the pattern as the query has it.
func (r *Regex) String() string { panic("unfinished") }
