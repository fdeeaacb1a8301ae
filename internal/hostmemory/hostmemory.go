// Package hostmemory reports how much memory this host has.
package hostmemory
