// The data that stand in the page itself.
"use strict";
const page = JSON.parse(document.getElementById("page-data").textContent);
