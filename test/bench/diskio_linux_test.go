package bench

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// diskArgument makes the test program measure a disk: "write FILE SIZE" or "read FILE SIZE", in bytes. It prints what
// it measured, in MiB/s or operations per second. Pods, machines and the host all run the same program.
const diskArgument = "measure-disk"

const (
	writeBlock  = 1 << 20
	readBlock   = 4 << 10
	readThreads = 16
	readTime    = 3 * time.Second
)

func init() { programs[diskArgument] = disk }

// disk measures a disk.
func disk(args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("usage: %s write|read FILE SIZE", diskArgument)
	}
	size, err := strconv.ParseInt(args[2], 10, 64)
	if err != nil {
		return err
	}
	var result float64
	if args[0] == "write" {
		result, err = writeSequentially(args[1], size)
	} else {
		result, err = readAtRandom(args[1], size)
	}
	if err == nil {
		fmt.Printf("%.1f\n", result)
	}
	return err
}

// writeSequentially writes a file or a device, with an fsync in the end, and returns MiB/s.
func writeSequentially(name string, size int64) (float64, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	block := make([]byte, writeBlock)
	for i := range block {
		block[i] = byte(rand.Uint32())
	}
	began := time.Now()
	for at := int64(0); at < size; at += writeBlock {
		if _, err := f.WriteAt(block, at); err != nil {
			return 0, err
		}
	}
	if err := f.Sync(); err != nil {
		return 0, err
	}
	return float64(size) / (1 << 20) / time.Since(began).Seconds(), nil
}

// readAtRandom reads blocks of a file or a device past the memory of the host, and returns operations per second.
func readAtRandom(name string, size int64) (float64, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_DIRECT, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var wait sync.WaitGroup
	counts, errs := make([]int, readThreads), make([]error, readThreads)
	began := time.Now()
	for i := range readThreads {
		wait.Go(func() {
			buffer := make([]byte, 2*readBlock) // of which a part is aligned
			skip := readBlock - int(uintptr(unsafe.Pointer(&buffer[0]))%readBlock)
			for time.Since(began) < readTime && errs[i] == nil {
				_, errs[i] = f.ReadAt(buffer[skip:skip+readBlock], rand.Int64N(size/readBlock)*readBlock)
				counts[i]++
			}
		})
	}
	wait.Wait()
	total := 0
	for i := range counts {
		if errs[i] != nil {
			return 0, errs[i]
		}
		total += counts[i]
	}
	return float64(total) / time.Since(began).Seconds(), nil
}
