// Package events keeps log events: many gigabytes on one machine, found again by group, time, stream and word.
package events
