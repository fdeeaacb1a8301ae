package value

// Path names a field inside JSON: keys joined by dots, an index for an element of an array
// (objectRef.name, user.groups.0). A key may itself contain dots: at each level the longest key
// that leads to a value wins, so labels.app.kubernetes.io/name is found.
type Path struct{ name string }

// ParsePath reads a field's name as queries write it, without backticks.
func ParsePath(name string) *Path { return &Path{name: name} }

// String returns the name.
func (p *Path) String() string { return p.name }

// Document reads fields of JSON messages without building a tree. The zero Document is ready for
// Parse and Field; one made by NewDocument finds a fixed set of paths in the same pass that
// checks the message, which is what to use for many messages.
//
// A Document is reused from message to message, by one goroutine. Values are valid until the message's memory is reused.
type Document struct{ message []byte }

// NewDocument returns a Document that finds paths; At(i) then is the value of paths[i].
func NewDocument(paths ...*Path) *Document { panic("unfinished") }

// Parse reports whether the whole message is one JSON object (else Insights discovers no fields in it).
func (d *Document) Parse(message []byte) bool { panic("unfinished") }

// At returns the value of the i-th path given to NewDocument in the message last parsed.
func (d *Document) At(i int) Value { panic("unfinished") }

// Field returns the value of any path in the message last parsed. It reads the message once more: see NewDocument.
func (d *Document) Field(path *Path) Value { panic("unfinished") }

// MaxDiscovered is how many fields of one event AWS discovers and lists at most. Queries here reach any path all the same.
const MaxDiscovered = 200

// Each calls yield with every scalar field of the message last parsed, in order, until yield returns false: discovery.
// Paths are such that ParsePath finds the field again.
func (d *Document) Each(yield func(path string, v Value) bool) { panic("unfinished") }
