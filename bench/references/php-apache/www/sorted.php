<?php
// SPDX-License-Identifier: MIT
// The page of lib/app/sorted.c: 1,001 sorted pseudo-random strings, always the same.

declare(strict_types=1);

const STRINGS = 1001;
const SEED = 20090401;

function next_random(int &$state, int $below): int
{
    $state = ($state * 1664525 + 1013904223) & 0xFFFFFFFF;
    return ($state >> 16) % $below;
}

function random_string(int &$state, int $words): string
{
    $length = 1 + next_random($state, 10);
    $all = [];
    for ($word = 0; $word < $words; $word++) {
        $letters = '';
        for ($i = 0; $i < $length; $i++) {
            $letters .= chr(ord('a') + next_random($state, 26));
        }
        $all[] = $letters;
    }
    return implode(' ', $all);
}

function sorted_page(): string
{
    $state = SEED;
    $strings = [random_string($state, 1000)];
    while (count($strings) < STRINGS) {
        $strings[] = random_string($state, 10);
    }
    sort($strings, SORT_STRING);
    return <<<'HEAD'
        <!DOCTYPE html>
        <html lang="en">
        <meta charset="utf-8">
        <meta name="viewport" content="width=device-width">
        <title>Sorted strings</title>
        <link rel="stylesheet" href="/style.css">
        <h1>Sorted strings</h1>
        <ol>

        HEAD
        . '<li>' . implode("</li>\n<li>", $strings) . "</li>\n</ol>\n</html>\n";
}
