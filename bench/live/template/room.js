// SPDX-License-Identifier: MIT
// Loads the page again when the lecturer shows predictions or another question.
"use strict";

setInterval(async () => {
  if (document.hidden) return;
  const answer = await fetch("/state").catch(() => undefined);
  if (answer?.ok && await answer.text() !== document.body.dataset.state) location.replace("/");
}, 3000);
