package main

import (
	"os"
	"strings"
	"testing"
)

func TestTheTableOfOperationsIsCurrent(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := printOperations(&b); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(page) != b.String() {
		t.Error("docs/operations.md is not what the code serves: make docs")
	}
}
