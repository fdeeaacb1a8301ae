// Package bench measures what README.md claims, each number beside its comparison in the same
// run: `make bench`. Benchmarks print a table at the end; nothing here fails for being slow.
package bench
