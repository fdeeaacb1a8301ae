package insights

// SyntaxError describes an error in a query and its position. StartQuery answers it as MalformedQueryException, with
// the offsets in queryCompileError.location.
type SyntaxError struct {
	Message      string // complete, with line and column; what would be right, too, where that can be said
	Start, End   int    // characters (Unicode code points) from the beginning of the query, 0-based, End exclusive
	Line, Column int    // of Start, 1-based, in characters
}

func (e *SyntaxError) Error() string { return e.Message }

// Query is a parsed query.
type Query struct {
	source     *Source
	statements []statement
	text       string // as given, for errors that Compile finds
}

// Parse reads a query by the grammar in the package's documentation. Its error is a *SyntaxError.
func Parse(text string) (*Query, error) {
	p := &parser{lexer: lexer{text: text}}
	q := p.parseQuery()
	if p.failed != nil {
		return nil, p.failed
	}
	return q, nil
}

// Source is the SOURCE command: the log groups of a query that names none in its request.
//
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/CWL_QuerySyntax-Source.html
type Source struct {
	Names    []string // SOURCE 'name': log groups by name or ARN, as dashboards write them
	All      bool     // logGroups(...): all groups that the three below allow
	Prefixes []string // namePrefix: at most 5; empty: any name
	Classes  []string // class: STANDARD, INFREQUENT_ACCESS; empty: STANDARD
	Accounts []string // accountIdentifiers: at most 20; empty: the caller's
}

// Source returns the query's SOURCE command, nil when it has none.
func (q *Query) Source() *Source { return q.source }
