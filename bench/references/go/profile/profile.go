// SPDX-License-Identifier: MIT

// Package profile makes a program write a CPU profile of itself, for hosts without perf.
package profile

import (
	"os"
	"os/signal"
	"runtime/pprof"
	"syscall"
)

// Into starts a CPU profile. At SIGTERM or SIGINT it writes the profile into the file and ends the
// program. Without a file name it does nothing.
func Into(name string) error {
	if name == "" {
		return nil
	}
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return err
	}
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-told
		pprof.StopCPUProfile()
		if err := file.Close(); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}()
	return nil
}
