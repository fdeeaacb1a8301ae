package value

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
	"unsafe"
)

// Patterns clusters messages as the `pattern` command does: messages of one shape count as one pattern, in which tokens
// stand for what varies (<Time-1>, <IP-2>, <Token-3>).
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/CWL_QuerySyntax-Pattern.html
//
// AWS does not publish how it clusters; this is what its documentation shows, in two steps. First each message becomes
// a shape: cut into words, with those replaced that are dynamic by their looks (numbers, dates, addresses, ids). Shapes
// are counted, so that neither the order of messages nor their division among workers matters. Then, in Results, shapes
// of the same delimiters and severity whose words are mostly equal become one pattern (as in Drain, P. He et al., ICWS
// 2017, but over shapes, the frequent ones first). Only if a query meets more than maxShapes shapes is the second step
// done in between, and the rarest lumped together, so that memory stays bounded.
type Patterns struct {
	// Done, when closed, ends what compares shapes early, which may take seconds. What comes of it is of no use then.
	Done <-chan struct{}

	shapes map[string]*[2]int64 // how often in the query's time range, and in the earlier one of `diff`
	bytes  int
	words  []piece // scratch
	key    []byte  // scratch
}

// PatternColumns are the columns of the command's result, in order.
var PatternColumns = []string{"@pattern", "@ratio", "@sampleCount", "@severityLabel"}

// Pattern is one cluster of messages.
type Pattern struct {
	Text     string // with tokens
	Severity string // FATAL, ERROR, WARN, INFO, DEBUG, TRACE or NONE
	Count    int64  // messages in the query's time range
	Earlier  int64  // messages in the time range that `diff` compares with
}

const (
	// patternLength is the number of characters of a message that AWS examines.
	patternLength = 1500
	maxShapes     = 4000
	// similar is the part of the words that two shapes must share to be one pattern.
	similar = 0.6
	// maxClusters limits the patterns with the same delimiters that are told apart.
	maxClusters = 200
)

// NewPatterns returns an empty clustering.
func NewPatterns() *Patterns { return &Patterns{shapes: map[string]*[2]int64{}} }

// Add takes one message (the text of the command's field).
func (p *Patterns) Add(message string) { p.add(message, 0) }

// AddEarlier takes one message of the time range that `diff` compares with.
func (p *Patterns) AddEarlier(message string) { p.add(message, 1) }

func (p *Patterns) add(message string, window int) {
	p.words = splitMessage(p.words[:0], message)
	p.key = appendShape(p.key[:0], p.words)
	n := p.shapes[string(p.key)]
	if n == nil {
		if len(p.shapes) >= maxShapes {
			p.compact()
		}
		n = p.ensureShape(string(p.key))
	}
	n[window]++
}

func (p *Patterns) ensureShape(key string) *[2]int64 {
	n := p.shapes[key]
	if n == nil {
		n = new([2]int64)
		p.shapes[key] = n
		p.bytes += len(key) + 64 + int(unsafe.Sizeof(piece{}))*len(readShape(key))
	}
	return n
}

// Merge takes over what other has seen; other must not be used afterwards.
func (p *Patterns) Merge(other *Patterns) {
	for _, key := range sortedKeys(other.shapes) {
		if p.shapes[key] == nil && len(p.shapes) >= maxShapes {
			p.compact()
		}
		n, o := p.ensureShape(key), other.shapes[key]
		n[0] += o[0]
		n[1] += o[1]
	}
}

// Bytes returns the memory held, in bytes, with that of the clusters which shapes are made: at most maxShapes shapes of
// messages' first 1500 characters.
func (p *Patterns) Bytes() int { return 64 + p.bytes }

// Patterns returns the clusters, the most frequent first.
func (p *Patterns) Patterns() []Pattern {
	var all []Pattern
	at := map[string]int{}
	for _, c := range p.clusters() {
		text := renderPattern(c.words)
		i, ok := at[text]
		if !ok {
			i = len(all)
			at[text] = i
			all = append(all, Pattern{Text: text, Severity: severities[c.severity]})
		}
		all[i].Count += c.count[0]
		all[i].Earlier += c.count[1]
	}
	slices.SortFunc(all, func(a, b Pattern) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(b.Earlier, a.Earlier), strings.Compare(a.Text, b.Text))
	})
	return all
}

// Results returns a row of PatternColumns for each pattern, the most frequent first. The ratio is of
// all messages in the query's time range.
func (p *Patterns) Results() [][]Value {
	all := p.Patterns()
	total := int64(0)
	for _, c := range all {
		total += c.Count
	}
	var rows [][]Value
	for _, c := range all {
		if c.Count > 0 {
			rows = append(rows, []Value{String(c.Text), Div(Int(c.Count), Int(total)), Int(c.Count),
				String(c.Severity)})
		}
	}
	return rows
}

// tokenKind classifies a word of a shape: itself, or a token of some type.
type tokenKind byte

// The types of tokens that are told by their looks. Others are named for the word before them.
const (
	static tokenKind = iota
	token
	dateToken
	timeToken
	addressToken
	uuidToken
	numberToken
	namedToken // its name is the word's text
)

var tokenNames = [...]string{token: "Token", dateToken: "Date", timeToken: "Time", addressToken: "IP",
	uuidToken: "UUID", numberToken: "Number"}

// piece is one word of a message, and the delimiters behind it. The first may be empty, for delimiters at the
// beginning.
type piece struct {
	kind   tokenKind
	text   string // of a static word; the name of a namedToken
	behind string
}

// delimiter reports whether c separates words wherever it stands.
func delimiter(c byte) bool {
	return c <= ' ' || strings.IndexByte(",;=()[]{}<>\"'|/&?!\\", c) >= 0
}

// splitMessage divides a message into words, the dynamic ones replaced.
func splitMessage(words []piece, message string) []piece {
	if len(message) > patternLength { // bytes, and then code points: ASCII is the rule
		message = message[:prefixLength(message, patternLength)]
	}
	i := 0
	for i < len(message) || len(words) == 0 {
		start := i
		for i < len(message) && !delimiter(message[i]) && !isSeparatorColon(message, i) {
			i++
		}
		end := i
		// A sentence's dot or a key's colon is no part of the word.
		for end > start+1 && strings.IndexByte(".:", message[end-1]) >= 0 {
			end--
		}
		i = end
		for i < len(message) && (delimiter(message[i]) || isSeparatorColon(message, i) || i == end &&
			strings.IndexByte(".:",
				message[i]) >= 0 || i > end && strings.IndexByte(".:", message[i-1]) >= 0 && strings.IndexByte(".:",
			message[i]) >= 0) {
			i++
		}
		w := piece{text: message[start:end], behind: message[end:i]}
		if len(words) == 0 && hasKlogPrefix(w.text) {
			words = append(words, piece{text: w.text[:1]}, piece{kind: dateToken, behind: w.behind})
			continue
		}
		if w.kind = classifyWord(w.text); w.kind == token || w.kind == numberToken {
			if n := len(words); n > 0 && words[n-1].kind == static {
				if name := tokenName(words[n-1].text, words[n-1].behind); name != "" {
					w.kind, w.text = namedToken, name
				}
			}
		}
		if w.kind != static && w.kind != namedToken {
			w.text = ""
		}
		words = append(words, w)
	}
	return words
}

// hasKlogPrefix reports whether s is what Kubernetes' log lines begin with: the severity's letter, the month and the
// day.
func hasKlogPrefix(s string) bool {
	return len(s) == 5 && strings.IndexByte("IWEF", s[0]) >= 0 && countDigits(s[1:]) == 4
}

var klogSeverity = map[string]int{"I": 3, "W": 4, "E": 5, "F": 6}

// isSeparatorColon reports whether a colon at i separates words: one between hexadecimal digits is part of a time or an
// address.
func isSeparatorColon(s string, i int) bool {
	return s[i] == ':' && (i == 0 || i+1 == len(s) || hexValue(s[i-1]) < 0 && s[i-1] != ':' || hexValue(s[i+1]) < 0 &&
		s[i+1] != ':')
}

// classifyWord returns the kind of a word by itself.
func classifyWord(s string) tokenKind {
	digits, letters := 0, 0
	for i := range len(s) {
		switch c := s[i]; {
		case c-'0' <= 9:
			digits++
		case c|0x20 >= 'a' && c|0x20 <= 'z':
			letters++
		}
	}
	switch {
	case digits == 0:
		return static
	case letters+digits == len(s) && digits <= 2 && countDigits(s) == 0 && strings.TrimRight(s,
		"0123456789") == s[:letters]:
		return static // s3, v1, http2
	case decimal(s, false):
		return numberToken
	}
	switch {
	case len(s) >= 10 && countDigits(s) == 4 && s[4] == '-' && countDigits(s[5:]) == 2 && s[7] == '-' &&
		countDigits(s[8:]) == 2:
		if len(s) > 10 { // 2026-11-21T10:36:42Z
			return timeToken
		}
		return dateToken
	case len(s) >= 5 && countDigits(s) <= 2 && countDigits(s) > 0 && s[countDigits(s)] == ':' &&
		countDigits(s[countDigits(s)+1:]) == 2 && letters <= 1:
		return timeToken
	case len(s) == 36 && s[8] == '-' && s[13] == '-' && s[18] == '-' && s[23] == '-':
		return uuidToken
	}
	host := s
	if i := strings.LastIndexByte(s, ':'); i > 0 && strings.Count(s, ":") == 1 {
		host = s[:i]
	}
	if parseAddress(String(host)).IsValid() || parseAddress(String(s)).IsValid() {
		return addressToken
	}
	return token
}

// nouns are words that name what follows them also without a colon or equals sign between.
var nouns = map[string]string{
	"id": "ID", "time": "Time", "ip": "IP", "port": "Port", "status": "Status", "code": "Code", "count": "Count",
	"size":     "Size",
	"duration": "Duration", "latency": "Latency", "version": "Version", "pid": "PID", "line": "Line", "user": "User",
	"index": "Index",
}

// tokenName returns the name of a token behind a word: "id 12" and "ResourceID: 12" name it ID and ResourceID.
func tokenName(word, behind string) string {
	if name := nouns[strings.ToLower(word)]; name != "" && len(behind) <= 4 {
		return name
	}
	if sign := strings.Trim(behind, ` "'`); sign != ":" && sign != "=" || word == "" || len(word) > 40 {
		return ""
	}
	for _, r := range word {
		if !unicode.IsLetter(r) && r != '_' && r != '-' {
			return ""
		}
	}
	r, size := utf8.DecodeRuneInString(word)
	return string(unicode.ToUpper(r)) + word[size:]
}

// severities are the labels, by rank.
var severities = [...]string{"NONE", "TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"}

var severityWords = map[string]int{
	"trace": 1, "debug": 2, "info": 3, "information": 3, "notice": 3, "warn": 4, "warning": 4,
	"error": 5, "err": 5, "fatal": 6, "critical": 6, "crit": 6, "panic": 6, "emergency": 6,
}

// severity returns the highest that a word names.
func severity(words []piece) int {
	highest := 0
	if len(words) > 1 && words[1].kind == dateToken && words[0].behind == "" {
		highest = klogSeverity[words[0].text]
	}
	for _, w := range words {
		if w.kind == static && len(w.text) >= 3 && len(w.text) <= 11 {
			highest = max(highest, severityWords[strings.ToLower(w.text)])
		}
	}
	return highest
}

// appendShape appends words as the key of a shape: for each its kind, the length of its text, the text, and the same
// for what is behind it.
func appendShape(b []byte, words []piece) []byte {
	for _, w := range words {
		b = append(b, byte(w.kind), byte(len(w.text)), byte(len(w.text)>>8))
		b = append(b, w.text...)
		b = append(b, byte(len(w.behind)), byte(len(w.behind)>>8))
		b = append(b, w.behind...)
	}
	return b
}

func readShape(key string) (words []piece) {
	next := func() (s string) {
		n := int(key[0]) | int(key[1])<<8
		s, key = key[2:2+n], key[2+n:]
		return s
	}
	for key != "" {
		w := piece{kind: tokenKind(key[0])}
		key = key[1:]
		w.text = next()
		w.behind = next()
		words = append(words, w)
	}
	return words
}

// cluster is a pattern in the making.
type cluster struct {
	words    []piece
	severity int
	count    [2]int64
}

// clusters runs the second step.
func (p *Patterns) clusters() []*cluster {
	var shapes []*cluster
	for _, key := range sortedKeys(p.shapes) {
		words := readShape(key)
		shapes = append(shapes, &cluster{words: words, severity: severity(words), count: *p.shapes[key]})
	}
	slices.SortStableFunc(shapes, func(a, b *cluster) int {
		return cmp.Compare(b.count[0]+b.count[1], a.count[0]+a.count[1])
	})
	groups := map[string][]*cluster{}
	var all []*cluster
	var key []byte
	for _, s := range shapes {
		if isClosed(p.Done) {
			return nil
		}
		key = append(key[:0], byte(s.severity))
		for _, w := range s.words {
			key = append(append(key, byte(len(w.behind)), byte(len(w.behind)>>8)), w.behind...)
		}
		group := groups[string(key)]
		var closest *cluster
		most := -1.0
		for _, c := range group {
			if like := c.likeness(s); like > most {
				closest, most = c, like
			}
		}
		if closest == nil || most < similar && len(group) < maxClusters {
			groups[string(key)] = append(group, s)
			all = append(all, s)
			continue
		}
		closest.mergeWith(s)
	}
	return all
}

// likeness returns the part of the words that are the same in c and o, -1 if a word that says the severity differs.
func (c *cluster) likeness(o *cluster) float64 {
	same, words := 0, 0
	for i, w := range c.words {
		v := o.words[i]
		if w.text == "" && v.text == "" && w.kind == static && v.kind == static {
			continue
		}
		words++
		if w.kind == v.kind && w.text == v.text || w.kind != static && v.kind != static {
			same++
		}
	}
	if words == 0 {
		return 1
	}
	return float64(same) / float64(words)
}

func (c *cluster) mergeWith(o *cluster) {
	c.count[0] += o.count[0]
	c.count[1] += o.count[1]
	for i := range c.words {
		w, v := &c.words[i], o.words[i]
		if w.kind == v.kind && w.text == v.text {
			continue
		}
		w.kind, w.text = token, ""
		if i > 0 && c.words[i-1].kind == static {
			if name := tokenName(c.words[i-1].text, c.words[i-1].behind); name != "" {
				w.kind, w.text = namedToken, name
			}
		}
	}
}

// compact puts clusters in the place of shapes. If more than half of maxShapes remain, the rarest become one that is a
// token only.
func (p *Patterns) compact() {
	all := p.clusters()
	slices.SortStableFunc(all, func(a, b *cluster) int {
		return cmp.Compare(b.count[0]+b.count[1], a.count[0]+a.count[1])
	})
	p.shapes, p.bytes = map[string]*[2]int64{}, 0
	for i, c := range all {
		if i >= maxShapes/2 {
			c.words = []piece{{kind: token}}
		}
		n := p.ensureShape(string(appendShape(nil, c.words)))
		n[0] += c.count[0]
		n[1] += c.count[1]
	}
}

// renderPattern writes a pattern, its tokens numbered.
func renderPattern(words []piece) string {
	var b strings.Builder
	n := 0
	for _, w := range words {
		switch w.kind {
		case static:
			b.WriteString(w.text)
		default:
			n++
			name := w.text
			if w.kind != namedToken {
				name = tokenNames[w.kind]
			}
			b.WriteString("<" + name + "-" + strconv.Itoa(n) + ">")
		}
		b.WriteString(w.behind)
	}
	return b.String()
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
