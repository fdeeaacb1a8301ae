package insights

import "fmt"

// SyntaxError says what is wrong with a query and where. StartQuery answers it as MalformedQueryException, with the offsets in
// queryCompileError.location.
type SyntaxError struct {
	Message      string
	Start, End   int // characters (Unicode code points) from the beginning of the query, 0-based, End exclusive
	Line, Column int // of Start, 1-based, in characters
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("%s at line %d and position %d", e.Message, e.Line, e.Column)
}

// Query is a parsed query.
type Query struct{}

// Parse reads a query by the grammar in the package's documentation. Its error is a *SyntaxError.
func Parse(text string) (*Query, error) { return &Query{}, nil }

// String writes the query so that Parse gives the same one again.
func (q *Query) String() string { return "" }

// Source is the SOURCE command: the log groups of a query that names none in its request.
type Source struct {
	Names    []string // SOURCE "name" | ...: log groups by name or ARN
	Prefixes []string // namePrefix: at most 5
	Class    string   // STANDARD (default), INFREQUENT_ACCESS
	Accounts []string // accountIdentifiers: at most 20; empty: the caller's
}

// Source is the query's SOURCE command, nil when it has none.
func (q *Query) Source() *Source { return nil }
