// Package events keeps log events: many gigabytes on one machine, found again by group, time, stream
// and word. It knows groups and streams by number; their names and tags are rows of internal/record.
//
// # How an event lives
//
// Append writes a batch as one chunk into the catalog, a Pebble database, together with the
// statistics of its streams and the marks of who ships it: one atomic batch, one fsync shared with
// whoever else appends. From then on readers see it.
//
// When a group has Options.SealBytes of messages in chunks, or Options.SealRows events, a goroutine in the
// background turns them into a part: a file of blocks that never changes. It sorts the events by stream
// and time, cuts them into blocks of about 2 MiB, and compresses these with all cores. The file is
// complete and durable before one batch of the catalog adds its line and removes the chunks, so that a crash at any
// instruction leaves the events in one of the two places; Open removes files without a line. Append
// waits when sealing falls behind, which bounds memory and the catalog. A group with little traffic
// stays in the catalog.
//
// The same goroutine merges small parts by copying their blocks, rewrites parts of which most is
// deleted, and removes those of which everything is. Deleting a stream is a line in the catalog,
// and so is the mark of expiry of a group; they hide rows from readers at once.
//
// # How it is found again
//
// The line of a part lists its blocks with their streams, times and Seq: it is in memory, about 100
// bytes for 2 MiB of messages. In a block the columns that every event has, the columns of JSON paths
// that are frequent and have few values, and the filter of words are apart from the messages: a query
// that asks for some of them leaves the messages compressed. See block.go for the layout, column.go
// for which paths become columns and when they are exact.
//
// A View is a snapshot: it holds the parts it may read (a file is removed when its last view is
// closed), a snapshot of the catalog with the chunks, and what is deleted. Events merges the blocks of a
// view in the order of time and opens a block when its time comes. Few of them are in memory, however many
// have events of one time: what is dropped is read again.
//
// # When things go wrong
//
// Everything has a checksum; what is damaged is an error with the file's name (ErrDamaged), never left
// out. On a full disk Append returns ErrFull before the catalog notices: Pebble doesn't survive a
// log that it cannot write, so there is a reserve (Options.MinFree), and a write that finds the disk
// full all the same waits for space. Any other failure of the log is final: the store takes no more
// until it is opened again, which reads back everything that was acknowledged.
package events
