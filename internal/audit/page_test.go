package audit

import (
	"strings"
	"testing"
)

// What the log holds came from whoever made a request: it must not be able to move the cursor, hide
// text or forge lines.
func TestHostileTextIsWrittenOut(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	p := page{w: &b, width: 80}
	p.writeSpans(0, 2, span{text: "a\x1b[2Jb\r\nc\u202ed\x00"})
	if got, want := b.String(), "a\\u001b[2Jb\\u000d\\u000ac\\u202ed\\u0000\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestLinesBreakAtJoints(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ what, text, want string }{
		{"spaces", "nothing was applied to the object", "nothing was applied to|the object"},
		{"a path", ".spec.template.spec.containers[name=aws-node].image",
			".spec.template.spec|.containers|[name=aws-node].image"},
		{"a key stays whole", ".metadata.annotations[deployment.kubernetes.io/x].y",
			".metadata|.annotations|[deployment.kubernetes.i|o/x].y"},
		{"an ARN", "arn:aws:iam::111122223333:role/platform-admin", "arn:aws:iam::|111122223333:role/|platform-admin"},
		{"not behind a sign", "+ " + strings.Repeat("x", 30), "+ " + strings.Repeat("x", 22) + "|" +
			strings.Repeat("x", 8)},
		{"not behind indentation", "- arn:aws:iam::111122223333:role/web", "- arn:aws:iam::|111122223333:role/web"},
		{"nowhere", strings.Repeat("x", 50), strings.Repeat("x", 24) + "|" + strings.Repeat("x", 24) + "|xx"},
	} {
		var b strings.Builder
		// narrowest is 40, so that a hang of 16 leaves 24 columns.
		p := page{w: &b, width: 40}
		p.writeSpans(16, 16, span{text: c.text})
		var got []string
		for line := range strings.Lines(b.String()) {
			got = append(got, strings.TrimSpace(line))
			if len(strings.TrimSuffix(line, "\n")) > 40 {
				t.Errorf("%s: %q is too long", c.what, line)
			}
		}
		if text := strings.Join(got, "|"); text != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.what, text, c.want)
		}
	}
}
