// Package conformance runs the certified conformance tests of Kubernetes on clusters with real nodes: e2e.test of each
// version, built from the module of that version (v1.35/ and so on), which has the list of the tests.
// https://github.com/cncf/k8s-conformance
//
// "make conformance" runs all tests of all versions, and puts the reports into bin/conformance. This file compares them
// with the list; image_test.go assembles the images that the tests run, and conformance_test.go runs them.
package conformance

import (
	"encoding/xml"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// conformance ends the names of conformance tests.
const conformance = "[Conformance]"

// spec is a test of upstream's list.
type spec struct {
	Name string `yaml:"codename"` // "[sig-auth] ServiceAccounts ... [Conformance]"
}

// exception is a test that does not have to pass, and the reason.
type exception struct {
	Name   string `yaml:"codename"`
	Reason string `yaml:"reason"`
}

// junit is the report of a run, as far as it is read.
type junit struct {
	Suites []struct {
		Cases []struct {
			Name    string `xml:"name,attr"`
			Status  string `xml:"status,attr"`
			Failure *struct {
				Message string `xml:"message,attr"`
			} `xml:"failure"`
		} `xml:"testcase"`
	} `xml:"testsuite"`
}

// outcome is that of one test.
type outcome struct{ status, message string }

// readList reads upstream's list of conformance tests, in YAML.
func readList(text []byte) (names []string, err error) {
	var specs []spec
	if err := yaml.Unmarshal(text, &specs); err != nil {
		return nil, fmt.Errorf("read the list of conformance tests: %w", err)
	}
	for _, s := range specs {
		names = append(names, strings.Join(strings.Fields(s.Name), " "))
	}
	return names, nil
}

// readExceptions reads the tests that do not have to pass. Each has a reason.
func readExceptions(text []byte) (map[string]string, error) {
	var all []exception
	if err := yaml.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("read the exceptions: %w", err)
	}
	reasons := map[string]string{}
	for _, e := range all {
		if e.Name == "" || e.Reason == "" {
			return nil, fmt.Errorf("the exception %+v has no codename or no reason", e)
		}
		reasons[e.Name] = e.Reason
	}
	return reasons, nil
}

// readReports reads the outcomes of all tests that ran, of JUnit files.
func readReports(files ...string) (map[string]outcome, error) {
	outcomes := map[string]outcome{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var report junit
		if err := xml.Unmarshal(text, &report); err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		for _, suite := range report.Suites {
			for _, c := range suite.Cases {
				name, is := strings.CutPrefix(c.Name, "[It] ")
				if !is || c.Status == "skipped" || c.Status == "pending" {
					continue
				}
				o := outcome{status: c.Status}
				if c.Failure != nil {
					o.message = c.Failure.Message
				}
				// Ginkgo adds the labels: "... [Conformance] [sig-auth, Conformance]".
				if text, _, ok := strings.Cut(name, conformance); ok {
					name = text + conformance
				}
				outcomes[strings.Join(strings.Fields(name), " ")] = o
			}
		}
	}
	return outcomes, nil
}

// compare returns what is wrong with the outcomes: tests of the list that did not run or did not pass, unless there is
// a reason for it, and reasons that are not needed. With a focus it looks at those tests of the list alone that match.
func compare(list []string, outcomes map[string]outcome, exceptions map[string]string, focus string,
) (passed int, problems []string, err error) {
	selected, err := matching(list, focus)
	if err != nil {
		return 0, nil, err
	}
	for name := range exceptions {
		if !slices.Contains(list, name) {
			problems = append(problems, name+": an exception, and no conformance test of this version")
		}
	}
	slices.Sort(problems)
	for _, name := range selected {
		o, ran := outcomes[name]
		_, excepted := exceptions[name]
		switch {
		case ran && o.status == "passed" && excepted:
			problems = append(problems, name+": an exception, and it passes: remove the exception")
		case ran && o.status == "passed":
			passed++
		case excepted:
		case !ran:
			problems = append(problems, name+": did not run")
		default:
			problems = append(problems, fmt.Sprintf("%s: %s: %s", name, o.status, o.message))
		}
	}
	return passed, problems, nil
}

// matching returns the names that a focus selects.
func matching(names []string, focus string) ([]string, error) {
	only, err := regexp.Compile(focus)
	if err != nil {
		return nil, fmt.Errorf("the focus: %w", err)
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !only.MatchString(name) }), nil
}
