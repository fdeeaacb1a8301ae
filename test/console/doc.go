// Package console tests the console in a browser: what a person does from start to end, and what nobody may do to that
// person. Screenshots are in $CORACLE_ARTIFACTS, or bin/artifacts.
package console
